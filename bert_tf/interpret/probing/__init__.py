"""What each layer of a frozen encoder knows: linear probes with a control task, and what each head attends to."""
