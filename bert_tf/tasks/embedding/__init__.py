"""Train a sentence embedding model (bi-encoder) on text pairs.

    bert-tf train embedder --train_file=pairs.tsv --eval_file=held_out.tsv \\
        --init_checkpoint=demo/weights/minilm --output_dir=out \\
        --do_train --do_eval

Texts that belong together get similar embeddings; evaluates by rank correlation
or retrieval. Run the same command again to resume an interrupted run.
"""
