"""Jobs of the pipeline that need testees, and what all commands of the pipeline share."""
