"""invalid_submission: raises NotImplementedError outside of any function."""

raise NotImplementedError
