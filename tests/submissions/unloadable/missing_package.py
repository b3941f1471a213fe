"""invalid_submission: imports a package that is not there."""

import flash_attention_that_is_not_installed
