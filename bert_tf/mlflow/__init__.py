"""MLflow flavor: exported models in MLflow's model registry, its scoring server and its batch jobs.

    import mlflow
    import bert_tf.mlflow
    info = bert_tf.mlflow.log_model("models/reviews", name="reviews")
    bert_tf.mlflow.load_model(info.model_uri)("A warm, funny film.")     # a `Predictor`
    mlflow.pyfunc.load_model(info.model_uri).predict(["A warm, funny film."])

Requires mlflow (extra `bert-tf[mlflow]`).
"""

from bert_tf.utils.extras import require_packages

require_packages("`bert_tf.mlflow`", "mlflow")

from bert_tf.mlflow.flavor import default_requirements, load_model, log_model, save_model  # noqa: E402

__all__ = ["default_requirements", "load_model", "log_model", "save_model"]
