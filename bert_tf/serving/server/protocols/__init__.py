"""Other protocols on the REST port: adapters from their requests to the path of all predictions."""
