"""The flags ``--window``, ``--bins`` and ``--alpha`` of commands that replay the published five."""

from __future__ import annotations

import argparse

from jobsight_predictor.series import DEFAULT_PARAMETERS, FiveParameters
from jobsight_server.ground.errors import UserError


def add_parameters(parser: argparse.ArgumentParser, default: FiveParameters = DEFAULT_PARAMETERS) -> None:
    """Add the flags, with these defaults."""
    parser.add_argument(
        "--window",
        type=int,
        default=default.window,
        metavar="COUNT",
        help=f"jobs in the sliding window forecast (default: {default.window})",
    )
    parser.add_argument(
        "--bins",
        type=int,
        default=default.bins,
        metavar="COUNT",
        help=f"bins of the weighted forecast (default: {default.bins})",
    )
    parser.add_argument(
        "--alpha",
        type=float,
        default=default.alpha,
        metavar="NUMBER",
        help=f"smoothing of the exponential forecast (default: {default.alpha:g})",
    )


def parameters_of(args: argparse.Namespace) -> FiveParameters:
    """Return the parameters of the flags.

    Raises:
        UserError: one of them is out of bounds.
    """
    try:
        return FiveParameters(args.window, args.bins, args.alpha)
    except ValueError as error:
        raise UserError(f"--{error}") from error
