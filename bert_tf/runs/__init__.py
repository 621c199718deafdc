"""What a user does with models: fine-tunes, pretrains, evaluates, exports. Free of flags; imports nothing itself."""
