"""Places among the calls of a batch that run."""

from __future__ import annotations

import asyncio
import threading

from turnflow.nodes.dispatch_tools.parallel import Slot


def taken_in_a_thread(slot: Slot) -> threading.Event:
    """Wait for a place in a thread; the event says that it was taken."""
    taken = threading.Event()

    def take() -> None:
        slot.call()
        taken.set()

    threading.Thread(target=take, daemon=True).start()
    return taken


def test_giving_back_twice_gives_back_one_place() -> None:
    first, second, third, fourth = (Slot("twice", 2) for _ in range(4))
    first.call()
    second.call()
    second.release()
    second.release()
    third.call()
    taken = taken_in_a_thread(fourth)
    assert not taken.wait(0.1)
    first.release()
    assert taken.wait(10)


def test_giving_back_twice_gives_back_one_place_when_awaited() -> None:
    async def main() -> None:
        first, second, third, fourth = (Slot("twice", 2) for _ in range(4))
        await first.acall()
        await second.acall()
        second.release()
        second.release()
        await third.acall()
        waiting = asyncio.create_task(fourth.acall())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        first.release()
        await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


def test_a_place_that_was_never_taken_is_not_given_back() -> None:
    first, second = Slot("untaken", 1), Slot("untaken", 1)
    first.call()
    Slot("untaken", 1).release()
    taken = taken_in_a_thread(second)
    assert not taken.wait(0.1)
    first.release()
    assert taken.wait(10)


def test_batches_have_places_of_their_own() -> None:
    first, other = Slot("one", 1), Slot("other", 1)
    first.call()
    assert taken_in_a_thread(other).wait(10)
