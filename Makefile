# `make` alone lists the targets. Everything is installed into .venv and nowhere else.

VENV := .venv
PY := $(VENV)/bin/python
DOCS := .venv-docs
STAMP := $(VENV)/.complete
CUDA := $(VENV)/.cuda
UV := $(shell command -v uv 2>/dev/null)

# The interpreter that .venv is made from: PYTHON=... if given, else the first of these that is new and old enough.
PYTHON ?=
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

# Arguments for the program behind `make demo`, `make test` and `make bench`, as in: make test ARGS=tests/models
ARGS ?=

# A folder that `make wheels` has filled: everything is installed from it by pip, without the network.
WHEELS ?=
ifneq ($(WHEELS),)
override UV :=
export PIP_NO_INDEX := 1
export PIP_FIND_LINKS := $(abspath $(WHEELS))
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup cuda wheels demo test test-slow test-versions test-serving bazel-test lint types \
  bench prove-gpu parts notebooks docs dist lock lock-cuda clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1|/p' $(MAKEFILE_LIST) | awk -F '|' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with everything in it (uv if it is on PATH, else pip)

# The stamp is written last: a set-up that was interrupted, or that is older than the lock, is made again from nothing.
$(STAMP): requirements.lock pyproject.toml
	@rm -f $@; $(find_python); \
	echo "Making $(VENV) with $$python and $(if $(UV),uv,pip): about 1 GB to fetch and 3 GB on disk, once."; \
	set -e; begin=$$(date +%s); \
	$(call make_environment,$(VENV),requirements.lock); \
	$(if $(UV),$(package_with_uv),$(package_with_pip)); \
	echo "$(VENV) is made: $$(($$(date +%s) - begin)) s."; \
	touch $@

define find_python
python=; \
for candidate in $(CANDIDATES); do \
  if "$$candidate" -c '$(FITS)' 2>/dev/null; then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo 'requirements.lock is for Python 3.11, 3.12 and 3.13. Tried: $(CANDIDATES).' >&2; \
  echo 'Install one of them, or say where it is: make setup PYTHON=/path/to/python3.12' >&2; exit 1; \
fi; \
python=$$("$$python" -c 'import sys; print(sys.executable)')
endef

# $(1): the environment's folder, $(2): the lock, which names every package, so that nothing is resolved.
make_environment = $(if $(UV),$(environment_with_uv),$(environment_with_pip))

define environment_with_uv
"$(UV)" venv --quiet --clear --python "$$python" $(1); \
"$(UV)" pip sync --require-hashes --compile-bytecode --python $(1)/bin/python $(2)
endef

define environment_with_pip
"$$python" -m venv --clear $(1); \
$(1)/bin/python tools/install.py $(2)
endef

# The package itself goes in last, editable, without asking the network for anything. That nothing is missing is checked
# at the end.
define package_with_uv
"$(UV)" pip install --quiet --python $(PY) --no-deps --no-build-isolation --editable .; \
"$(UV)" pip check --python $(PY)
endef

define package_with_pip
$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .; \
$(PY) -m pip check
endef

cuda: $(CUDA) ## add NVIDIA's libraries to .venv (2.5 GB more to fetch), so that TensorFlow uses a GPU

$(CUDA): requirements-cuda.lock $(STAMP)
	@$(PY) tools/install.py requirements-cuda.lock
	@touch $@

wheels: ## fetch everything that `make setup cuda WHEELS=wheels` installs on a machine like this without network
	@$(find_python); "$$python" -m pip download --no-deps --require-hashes --dest wheels \
	  --requirement requirements.lock --requirement requirements-cuda.lock

# The files that git tracks and the wheels, in parts that a machine can take one at a time.
PART_MIB ?= 64
parts: wheels ## split the checkout and its wheels into parts of 64 MiB, PART_MIB=... for others, for a machine without network
	@$(find_python); "$$python" tools/split_files.py --output_dir=parts --part_mib=$(PART_MIB) wheels $$(git ls-files)

demo: $(STAMP) ## fine-tune a pretrained BERT on real sentences and ask it about two more
	@$(VENV)/bin/bert-tf demo $(ARGS)

# Two processes with a thread each: with one for every core they would get in each other's way. They leave bytecode,
# whatever the environment says: without it, each of their hundreds of children compiles the package again.
test: $(STAMP) ## run the fast tests
	TF_NUM_INTRAOP_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --durations=15 $(ARGS)

test-slow: $(STAMP) ## run the long tests; some take something from the network
	$(PY) -m pytest -m slow --durations=0 $(ARGS)

# ARGS="--only=tensorflow-2.19 --python=3.10=/path/to/python3.10" runs one of them.
test-versions: $(STAMP) ## run the fast tests with older TensorFlow and other Pythons: up to 45 minutes and 3 GB of disk for each
	$(PY) -m tools.versions $(ARGS)

test-serving: $(STAMP) ## run the serving contract; BERT_TF_MODEL_SERVER=/path/to/tensorflow_model_server asks the real one
	$(PY) -m pytest tests/serving/contract_test.py $(ARGS)

bazel-test: $(STAMP) ## run the fast tests with Bazel (Debian's bazel-bootstrap, installed if there is none)
	@$(have_bazel)
	BERT_TF_PYTHON="$(abspath $(PY))" bazel test $(or $(ARGS),//...)

# Only root can install it, so whoever is not is asked by sudo, or told what is missing.
define have_bazel
command -v bazel >/dev/null && exit; \
sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; \
for needed in apt-get $$sudo; do \
  if ! command -v $$needed >/dev/null; then \
    echo "bazel must be on PATH. It is not, and without $$needed it cannot be installed from here:" >&2; \
    echo 'as root, apt-get install bazel-bootstrap on Debian or Ubuntu; https://bazel.build/install elsewhere.' >&2; \
    exit 1; \
  fi; \
done; \
$$sudo apt-get update -qq; \
$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bazel-bootstrap
endef

lint: $(STAMP) ## look for mistakes and for departures from the style
	$(PY) -m ruff check .

types: $(STAMP) ## check the public API and a user's code against it with mypy
	$(PY) -m mypy $(ARGS)
	$(PY) -m mypy.stubtest --mypy-config-file pyproject.toml --ignore-missing-stub $(addprefix bert_tf.serving.client.,base_client client async_client)

bench: $(STAMP) ## measure training and answering beside the peers that ARGS="--peer_python=..." has
	$(PY) benchmarks/bench.py $(ARGS)

prove-gpu: $(STAMP) $(if $(shell command -v nvidia-smi 2>/dev/null),$(CUDA)) ## test and measure this machine's GPUs in 15 minutes; ARGS=--rehearse does so on the CPU
	$(PY) benchmarks/prove_accelerator.py $(ARGS)

notebooks: $(STAMP) ## write the notebooks of docs/tutorials from its pages
	$(PY) -m tests.documentation.tutorials.pages

docs: $(DOCS)/.complete ## build the site of docs/ into site; ARGS=serve shows it on http://localhost:8000
	$(DOCS)/bin/python -m mkdocs $(or $(ARGS),build --strict) --config-file tools/docs/mkdocs.yml

dist: $(STAMP) ## build the source archive and the wheel of a release in dist, and check both
	$(PY) -m tools.dist

# Some 25 small packages, and no TensorFlow.
$(DOCS)/.complete: tools/docs/requirements.lock
	@rm -f $@; $(find_python); set -e; \
	$(call make_environment,$(DOCS),$<); \
	touch $@

lock: ## resolve requirements.lock and tools/docs/requirements.lock anew from pyproject.toml (needs uv)
	$(COMPILE) --extra dev --output-file requirements.lock pyproject.toml
	@$(find_python); "$$python" -c '$(DOCS_EXTRA)' | $(COMPILE) --output-file tools/docs/requirements.lock -

lock-cuda: $(STAMP) ## resolve requirements-cuda.lock anew: NVIDIA's libraries for the TensorFlow of .venv (needs uv)
	$(PY) -c '$(CUDA_EXTRA)' | $(COMPILE) --output-file requirements-cuda.lock -

COMPILE = uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --upgrade --custom-compile-command 'make $@'
# The extra alone: with it uv would resolve what bert_tf itself needs, too.
DOCS_EXTRA := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*project["optional-dependencies"]["docs"], sep="\n")

CUDA_EXTRA := from importlib.metadata import requires; \
  print(*(each.partition(";")[0] for each in requires("tensorflow") if "and-cuda" in each), sep="\n")

clean: ## remove the environments, the demo and the caches
	rm -rf $(VENV) .venv-* demo build dist site *.egg-info .pytest_cache .ruff_cache .mypy_cache bazel-*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
