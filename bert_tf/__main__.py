"""`python -m bert_tf NAME --flags`: the same as `bert-tf NAME --flags`."""

from bert_tf.programs.main import main

if __name__ == "__main__":
    main()
