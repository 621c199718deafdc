"""Classification of texts and pairs of texts, with one label or several, and regression."""
