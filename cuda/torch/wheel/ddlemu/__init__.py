# SPDX-License-Identifier: Apache-2.0
"""ddlemu as it was installed by pip: the command, and the libraries that it uses."""
