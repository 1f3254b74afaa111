"""One order over any number of ranks, and states that go on in it: what tests of loaders that are cut over ranks share."""

import contextlib
import json


def saved(loader):
    """The state as a program would find it in a file."""
    return json.loads(json.dumps(loader.state_dict()))


@contextlib.contextmanager
def open_ranks(make, world):
    """The loaders of all ranks, make(rank, world) each."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(make(rank, world)) for rank in range(world)]


def global_epoch(ranks, take, state=None):
    """What `take` gives, a list, of every global batch that is left of an epoch, from the state on; and the states of rank 0 before and after."""
    if state is not None:
        for loader in ranks:
            loader.load_state_dict(state)
            assert (saved(loader)["batch"], saved(loader)["epoch"]) == (state["batch"], state["epoch"])
    steps, states = [], [saved(ranks[0])]
    for batches in zip(*ranks, strict=True):
        steps.append(sum(map(take, batches), []))
        states.append(saved(ranks[0]))
    return steps, states


def check_ranks_and_states(make, take, epochs, later=None, every=7):
    """1, 2 and 4 ranks have the same steps, and from a state of one rank, every so many batches, 1 and 2 go on exactly. The states of each epoch."""
    with open_ranks(make, 1) as ranks:
        whole, states = zip(*(global_epoch(ranks, take) for _ in range(epochs)), strict=True)
    assert whole[0] != whole[1]
    for world in (2, 4):
        with open_ranks(make, world) as ranks:
            assert [global_epoch(ranks, take)[0] for _ in range(epochs)] == list(whole)
    for world in (1, 2):
        with open_ranks(later or make, world) as ranks:  # one state after the other, into the same loaders
            for epoch, steps in enumerate(whole):
                for k in range(epoch % every, len(steps), every):
                    assert global_epoch(ranks, take, states[epoch][k])[0] == steps[k:]
    return states
