"""How tests send SIGINT, and how often: FOREBAY_INTERRUPTS=100 (make interrupts) repeats each wait, and asks for the time that is promised."""

import contextlib
import gc
import os
import signal
import threading
import time

TIMES = int(os.environ.get("FOREBAY_INTERRUPTS", "0"))
ENOUGH = 0.2 if TIMES else 1.0  # seconds; it takes about 0.05, but machines of the CI stand still at times
AFTER = 0.15 if TIMES else 0.5  # until then a call waits


@contextlib.contextmanager
def default_sigint():
    """SIGINT raises KeyboardInterrupt: it is ignored in what a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@default_sigint()
def interrupt(work, after=AFTER):
    """Call `work`, which is ended by KeyboardInterrupt, soon after it was sent."""
    sent = []
    collects = gc.isenabled()

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    ended = None
    try:
        gc.disable()  # a finalizer that it runs just then takes KeyboardInterrupt for itself
        timer.start()
        try:
            work()
        except Exception:
            time.sleep(0.05 if sent else 5)  # an error of others, such as pyarrow's, comes first
            raise
        time.sleep(5)
    except KeyboardInterrupt:
        ended = time.monotonic()
    finally:
        if collects:
            gc.enable()
    timer.join()
    assert ended is not None
    print(f"{(ended - sent[0]) * 1e3:.0f} ms")
    assert ended - sent[0] < ENOUGH


def children(pid):
    """Processes whose parent this is: number to (name, state)."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
                if int(rest.split()[1]) == pid:
                    found[int(entry)] = (name, rest.split()[0])
    return found


def runs(pid):
    """Is there such a process, and has it not ended?"""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
