"""Bug dossiers: the findings of a run by cause, each as an issue that its maintainer could be sent."""
