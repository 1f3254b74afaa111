"""Makes gridded fields as weather archives keep them: one NetCDF-4 file a year, variables (time, lat, lon) packed into int16.

    python recipes/weather/generate.py OUT [--scale small|medium|bench|full] [--years N] [--steps N] [--lat N] [--lon N] [--chunk N] [--seed N]

    OUT/<year>.nc   t2m, u10, v10 (time, lat, lon) int16 with scale_factor, add_offset and _FillValue; zlib and shuffle, chunks of a few times;
                    time (hours since 1900-01-01), lat, lon

Anomalies of temperature travel east, a cell every step, and fade, while new ones arise; the winds follow their gradient, so that there is something
to learn. A few values are missing.
"""

import functools
import pathlib
import sys

import netCDF4
import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import data

VARIABLES = {"t2m": ("K", 280.0, 12.0), "u10": ("m s**-1", 4.0, 5.0), "v10": ("m s**-1", 0.0, 5.0)}
HOURS = 6
SCALES = {
    "small": dict(years=4, steps=240, lat=16, lon=32, chunk=8),
    "medium": dict(years=6, steps=730, lat=32, lon=64, chunk=8),
    "bench": dict(years=10, steps=1460, lat=64, lon=128, chunk=8),
    "full": dict(years=40, steps=1460, lat=181, lon=360, chunk=1),
}


def smooth(rng, lat, lon):
    """Noise without fine structure, of unit variance."""
    kx, ky = np.fft.fftfreq(lon)[None], np.fft.fftfreq(lat)[:, None]
    field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((lat, lon))) * np.exp(-60 * (kx**2 + ky**2))).real
    return (field - field.mean()) / field.std()


def year(rng, steps, lat, lon):
    """Anomalies of the three variables, (steps, lat, lon)."""
    fade, field, out = 0.97, smooth(rng, lat, lon), {name: np.empty((steps, lat, lon), np.float32) for name in VARIABLES}
    for t in range(steps):
        out["t2m"][t], out["u10"][t], out["v10"][t] = field, np.gradient(field, axis=0) * 2, np.gradient(field, axis=1) * 2
        field = fade * np.roll(field, 1, axis=1) + np.sqrt(1 - fade**2) * smooth(rng, lat, lon)
    return out


def generate(out, years=3, steps=240, lat=16, lon=32, chunk=8, seed=0):
    """Write everything."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for y in range(years):
        rng, at = np.random.default_rng((seed, y)), 2000 + y
        first = int((np.datetime64(f"{at}-01-01") - np.datetime64("1900-01-01")) / np.timedelta64(1, "h"))
        with netCDF4.Dataset(out / f"{at}.nc", "w") as file:
            for name, size in (("time", None), ("lat", lat), ("lon", lon)):
                file.createDimension(name, size)
            time = file.createVariable("time", "i4", ("time",), chunksizes=(1024,))
            time.units, time.calendar = "hours since 1900-01-01 00:00:00", "gregorian"
            file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(90, -90, lat, dtype=np.float32)
            file.createVariable("lon", "f4", ("lon",))[:] = np.arange(lon, dtype=np.float32) * (360 / lon)
            fields = year(rng, steps, lat, lon)
            for name, (units, mean, spread) in VARIABLES.items():
                storage = dict(zlib=True, shuffle=True, complevel=4, chunksizes=(chunk, lat, lon), fill_value=-32767)
                variable = file.createVariable(name, "i2", ("time", "lat", "lon"), **storage)
                variable.units, variable.scale_factor, variable.add_offset = units, spread * 8 / 65_000, mean
                values = np.ma.array(mean + spread * fields[name])
                if name == "t2m":
                    values[steps // 2, 0, 0] = np.ma.masked
                variable[:] = values
            time[:] = first + HOURS * np.arange(steps)


def main():
    parser = data.command(__doc__, SCALES)
    parser.add_argument("--years", type=functools.partial(data.whole, least=3), help="files")
    for name, what in (("steps", "times a year"), ("lat", "rows"), ("lon", "columns"), ("chunk", "times a chunk")):
        parser.add_argument(f"--{name}", type=data.count, help=what)
    out, _ = data.write("weather", parser, SCALES, generate)
    print(f"{out}: written")


if __name__ == "__main__":
    main()
