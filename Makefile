# Everything runs in .venv, which the first target makes from requirements.lock.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench vectors lock clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(INSTALLED) ## watch agents write, compact and survive kills (KEEP=1: leave all running)
	@KEEP=$(KEEP) $(BIN)/python -m surfacelog.processors.demo

test: $(INSTALLED) ## run every test, on one stack of its own
	@$(BIN)/python -m tests

lint: $(INSTALLED) ## style, types, layers, compose file and Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/hadolint deploy/Dockerfile

bench: $(INSTALLED) ## measure throughput and latency
	@$(BIN)/python -m tests.benchmarks

vectors: $(INSTALLED) ## compare with reference cases: make vectors FILE=path.jsonl.xz
	@$(BIN)/python -m tests.vectors.run $(FILE)

lock: $(INSTALLED) ## renew the lock files after a change of pyproject.toml
	$(BIN)/pip install --quiet uv
	for file in "requirements.lock --all-extras" deploy/requirements.lock; do \
	  $(BIN)/uv pip compile --quiet --no-header --no-emit-index-url --generate-hashes \
	    --universal --python-version 3.11 pyproject.toml --output-file $$file || exit 1; \
	done

clean: ## stop the local stack and remove it with the environment
	-@$(BIN)/surfacelog stack down --wipe
	rm -rf $(VENV) .surfacelog

$(INSTALLED): requirements.lock pyproject.toml
	@deploy/install.sh $(VENV)
	@touch $@
