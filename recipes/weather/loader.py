"""Gridded fields with Forebay: windows over time of several variables, standardised.

    train = loader.windows(["data/2000.nc", "data/2001.nc"])
    moments = fb.fit(train, loader.VARIABLES)
    batches = train.loader(loader.outputs(moments), batch_size=32, memory="8GiB", device="cuda")
"""

import forebay as fb

VARIABLES = ("t2m", "u10", "v10")
INPUT, OUTPUT = 4, 2


def windows(paths, input=INPUT, output=OUTPUT, hours=6, time="time"):
    """Consecutive times without a gap, inside one file."""
    return fb.open(paths, axis=time).windows(input, output, time=time, step=hours)


def outputs(moments, variables=VARIABLES, target="t2m", input=INPUT, output=OUTPUT, time="time"):
    """x (B, input, variables, lat, lon), y (B, output, lat, lon), time (B): the last one of the input. Missing values are the mean, 0."""
    return {
        "x": fb.col(*variables, dtype="float32").standardize(moments).fill_missing(0).steps(0, input),
        "y": fb.col(target, dtype="float32").standardize(moments).fill_missing(0).steps(input, input + output),
        "time": fb.col(time).at(input - 1),
    }
