# SPDX-License-Identifier: MIT
"""The first tables. New databases get today's from tables.py, so that this step does nothing."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    pass
