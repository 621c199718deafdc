"""`python -m bert_tf NAME --flags`: the same as `bert-tf NAME --flags`."""

from bert_tf.cli.main import main

if __name__ == "__main__":
    main()
