# SPDX-License-Identifier: MIT
"""The loop: plan blocks, build, boot, collect, stop when precise enough, judge, resume."""
