"""The learner's loop: follows one file, grades it when it changes, and shows the result; what happens when is pure."""
