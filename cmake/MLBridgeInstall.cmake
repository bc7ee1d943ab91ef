# Installation rules; see tests/install.
