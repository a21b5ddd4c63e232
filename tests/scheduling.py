"""Which worker has which file."""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.order import is_forgetful, room, waits


class Scheduling(LoadFileScheduling):
    """Files in their order, but first those of rooms where only this worker has been: what it traced there it has.

    Of more than two workers the last begins with those that mostly wait, beside two that compute.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        rooms = {worker: set(map(room, files)) for worker, files in self.assigned_work.items()}
        own = rooms.pop(node, set())
        others = set().union(*rooms.values())
        does_wait = node.gateway.id == f"gw{self.numnodes - 1}"

        def place(file: str) -> tuple[bool, ...]:
            is_for_another = self.numnodes > 2 and waits(file) != does_wait
            return is_forgetful(file), is_for_another, room(file) not in own, room(file) in others

        self.workqueue.move_to_end(min(self.workqueue, key=place), last=False)  # of equal ones the first
        super()._assign_work_unit(node)
