"""Which worker has which file: a third one begins with those that mostly wait, beside two that compute."""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# For a browser, for processes, for time to pass. Files of the browser stay together: it is started once.
WAITING = (
    "web/browser/ test_patience test_engines test_faults test_killed test_interrupt test_cli.py test_sweep.py "
    "test_explanations test_settings test_site test_web.py test_architecture batch/test_kept test_compare "
    "test_programs test_summary planning/test_backward"
).split()


class Scheduling(LoadFileScheduling):
    """Files in their order; of more than two workers the last has those that wait first, and the others these last."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = [x for x in self.workqueue if any(name in x for name in WAITING)]
        if self.numnodes > 2 and node.gateway.id == f"gw{self.numnodes - 1}":
            if waiting:
                self.workqueue.move_to_end(waiting[0], last=False)
        elif self.numnodes > 2:
            for name in waiting:
                self.workqueue.move_to_end(name)
        super()._assign_work_unit(node)
