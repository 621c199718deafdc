"""The servers that tests/serving asks are attacked here."""

from tests.serving.conftest import *  # noqa: F403
