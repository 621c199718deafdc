"""The tokenizer as a layer, so that a model reads text itself and takes its vocabulary along."""

import dataclasses
import json
import os

import keras
import tensorflow as tf

from bert_tf.families import Template
from bert_tf.hub import archive
from bert_tf.model_files import load_description
from bert_tf.tokenization.base import BaseTokenizer
from bert_tf.tokenization.kinds import TOKENIZERS
