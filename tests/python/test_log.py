"""The logger "forebay": epochs, waits that take long with their cause, FOREBAY_LOG."""

import logging
import os
import signal
import time

import pytest

import forebay as fb
from interrupts import default_sigint

np = pytest.importorskip("numpy")


@pytest.fixture
def path(parquet):
    return parquet({"x": np.arange(20_000, dtype="f4"), "y": np.arange(20_000)}, row_group_size=2_000)


def test_an_epoch_that_ends_is_logged(path, caplog):
    with fb.open(path).loader({"x": "x"}, batch_size=500) as loader, caplog.at_level(logging.INFO, "forebay"):
        for _ in loader:
            pass
    (line,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("epoch")]
    assert line.startswith("epoch 0: 40 batches, 20000 samples in") and "limit: " in line


def slow_for(slow):
    """A transform that is slow for some batches."""

    def transform(batch):
        if int(batch["y"][0]) in slow:
            time.sleep(0.2)
        return batch

    return transform


def test_a_wait_that_takes_long_is_a_warning_with_its_cause(path, caplog):
    ds = fb.open(path)
    with ds.loader({"y": "y"}, batch_size=1000, shuffle=False, transform=slow_for({5000}), check=False) as loader, caplog.at_level(logging.WARNING, "forebay"):
        for _ in loader:
            pass
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "for batch 5 of epoch 0, for the transform" in record.getMessage()


def test_first_batches_never_warn_and_the_limit_can_be_set(path, caplog):
    ds = fb.open(path)
    with caplog.at_level(logging.WARNING, "forebay"):
        with ds.loader({"y": "y"}, batch_size=10_000, shuffle=False, transform=slow_for({0}), check=False) as loader:
            for _ in range(2):
                for _ in loader:
                    pass
        with ds.loader({"y": "y"}, batch_size=1000, shuffle=False, transform=slow_for({5000}), check=False, slow_next_ms=60_000) as loader:
            for _ in loader:
                pass
    assert not caplog.records
    with pytest.raises(ValueError, match="slow_next_ms"):
        ds.loader({"y": "y"}, batch_size=1000, slow_next_ms=0)
    with pytest.raises(ValueError, match="slow_next_share=0.0 is out of range: it must be above 0"):
        ds.loader({"y": "y"}, batch_size=1000, slow_next_share=0.0)


def test_messages_of_an_environment(run_python, path):
    script = """
        import sys, forebay as fb
        for _ in fb.open(sys.argv[1]).loader("x", batch_size=500, framework="buffer"):
            pass
    """
    assert run_python(script, path).stderr == ""
    said = run_python(script, path, env={"FOREBAY_LOG": "info"}).stderr
    assert "forebay: INFO: epoch 0: 40 batches" in said and "share a block with chance" in said
    assert run_python(script, path, env={"FOREBAY_LOG": "warning"}).stderr == ""
    assert "use debug, info, warning or off" in run_python(script, path, env={"FOREBAY_LOG": "loud"}).stderr


def test_the_command_reads_it_too(path):
    cli = os.environ.get("FOREBAY_CLI")
    if not cli:
        pytest.skip("FOREBAY_CLI is not set")
    import subprocess

    command = [cli, "bench", path, "--seconds", "0.2", "--batch-size", "500"]
    def said(level):
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "FOREBAY_LOG": level}).stderr

    assert "forebay: epoch " in said("info") and "forebay: epoch " in said("INFO")
    assert said("off") == said("") == ""
    assert said("loud") == "forebay: warning: FOREBAY_LOG=loud: use debug, info, warning or off\n"


@default_sigint()
def test_ctrl_c_while_a_message_is_shown_ends_the_program(path):
    class Interrupted(logging.Handler):
        def emit(self, record):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)  # Python's handler raises here

    logger, handler = logging.getLogger("forebay"), Interrupted(logging.INFO)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        with fb.open(path).loader({"x": "x"}, batch_size=500) as loader:
            batches = iter(loader)
            logger.addHandler(handler)
            with pytest.raises(KeyboardInterrupt):
                for _ in batches:  # when the epoch ends, the library says so
                    pass
                time.sleep(1)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
