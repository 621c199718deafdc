"""Linear probes of each layer of a frozen encoder with a control task, and measures of what each head attends to."""
