"""Programs whose steps are not plain to see: `counted.py WORD`."""

import os
import sys
import threading

import tiny
import torch


def plain() -> None:
    """Twelve steps."""
    model = tiny.make_model()
    optimizer = tiny.make_optimizer(model)
    for _ in range(12):
        tiny.train(model, optimizer)


def evaluated_first() -> None:
    """Eight calls of a module, so that a window is open, then a training of thirty steps."""
    model = tiny.make_model()
    for _ in range(8):
        model(torch.ones(3, 4))
    optimizer = tiny.make_optimizer(model)
    for _ in range(30):
        tiny.train(model, optimizer)


def evaluated_long() -> None:
    """Thirty calls of a module, so that a window is complete, then a training of twelve steps."""
    model = tiny.make_model().eval()
    with torch.no_grad():
        for _ in range(30):
            model(torch.ones(3, 4))
    model.train()
    optimizer = tiny.make_optimizer(model)
    for _ in range(12):
        tiny.train(model, optimizer)


def threaded() -> None:
    """Eight calls of a module, so that a window is open, then a training on another thread."""
    model = tiny.make_model()
    with torch.no_grad():
        for _ in range(8):
            model(torch.ones(3, 4))

    def train() -> None:
        optimizer = tiny.make_optimizer(model)
        for _ in range(12):
            tiny.train(model, optimizer)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()


def made_early() -> None:
    """An optimizer, a hundred calls of its module, then twelve steps."""
    model = tiny.make_model()
    optimizer = tiny.make_optimizer(model)
    with torch.no_grad():
        for _ in range(100):
            model(torch.ones(3, 4))
    for _ in range(12):
        tiny.train(model, optimizer)


def short() -> None:
    """Eight steps."""
    model = tiny.make_model()
    optimizer = tiny.make_optimizer(model)
    for _ in range(8):
        tiny.train(model, optimizer)
    torch.ones(3) + 1


def compiled_step() -> None:
    """Twelve steps of an optimizer, compiled."""
    model = tiny.make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(12):
        model(torch.ones(3, 4)).sum().backward()
        step()
        optimizer.zero_grad()


def captured() -> None:
    """Two steps, then twelve that the program captures itself."""
    import tracebraid

    model = tiny.make_model()
    optimizer = tiny.make_optimizer(model)
    for _ in range(2):
        tiny.train(model, optimizer)
    with tracebraid.capture(sys.argv[2] + "/own") as cap:
        for _ in range(12):
            tiny.train(model, optimizer)
            cap.step()
    assert cap.checked is not None
    assert cap.checked.links


def replaced() -> None:
    """Eight steps of one optimizer, so that a window is open, then thirty of another one."""
    for steps in (8, 30):
        model = tiny.make_model()
        optimizer = tiny.make_optimizer(model)
        for _ in range(steps):
            tiny.train(model, optimizer)


def accumulated() -> None:
    """Twelve steps of three forwards each, under a scheduler, with evaluations in between."""
    model = tiny.make_model()
    optimizer = tiny.make_optimizer(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
    for _ in range(12):
        for _ in range(3):
            model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        with torch.no_grad():
            model(torch.ones(3, 4))


def compiled() -> None:
    """Twelve calls of a module that must be compiled in one graph."""
    model = torch.compile(tiny.make_model(), backend="eager", fullgraph=True)
    with torch.no_grad():
        for _ in range(12):
            model(torch.ones(3, 4))


def profiled() -> None:
    """Twelve steps under a profiler of its own."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        plain()
    print(sum(event.key == "aten::addmm" for event in profiler.key_averages()))


def thread_per_call() -> None:
    """Sixty calls, each on a thread of its own, which all live to the end."""
    model, may_end = tiny.make_model().eval(), threading.Event()

    def answer(done: threading.Event) -> None:
        with torch.inference_mode():
            model(torch.ones(3, 4))
        done.set()
        may_end.wait()

    threads = []
    for _ in range(60):
        done = threading.Event()
        threads.append(threading.Thread(target=answer, args=(done,)))
        threads[-1].start()
        done.wait()
    may_end.set()
    for thread in threads:
        thread.join()


def in_hooks() -> None:
    """Twenty passes, in which an optimizer for each parameter steps as soon as its gradient is there."""
    model = tiny.make_model()
    optimizers = {one: torch.optim.AdamW([one], foreach=False) for one in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(20):
        model(torch.ones(3, 4)).sum().backward()


def restarted() -> None:
    """Twelve steps, but in torchrun's attempt 0 the eighth fails, where it is to fail."""
    fails = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    model = tiny.make_model()
    optimizer = tiny.make_optimizer(model)
    for number in range(12):
        tiny.train(model, optimizer)
        if fails and number == int(sys.argv[2]):
            raise RuntimeError("flaky node")


globals()[sys.argv[1]]()
print("done")
