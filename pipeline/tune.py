"""Stage 3: splits -> the settings that did best on a part of them, and all trials."""

from pipeline import params, paths, stage
from pipeline.cluster import RayParams, cluster
from pipeline.work import unfinished
from registry.files import read_json, write_json
from training import bases, model, search
from training.params import TrainParams, TuneParams
from training.trials import best_of


def main() -> None:
    """Search, unless `tune.enabled` is false: then nothing is overridden."""
    tune, train = params.load("tune", TuneParams), params.load("train", TrainParams)
    if not tune.enabled:
        write_json(paths.TRIALS, [])
        write_json(paths.BEST, {"settings": {}, "trial": None, "score": None})
        print("tune: off (tune.enabled is false); train takes its own settings")
        return
    base = bases.resolve(train.base, train.revision, paths.ROOT)
    with unfinished("tune", [paths.TRAIN, paths.VAL, paths.LABELS, base], [tune, train]) as work:
        model.start(train, read_json(paths.LABELS), paths.ROOT, work / "start")
        with cluster(params.load("ray", RayParams)):
            trials = search.search(work / "start", paths.TRAIN, paths.VAL, train, tune, work)
        best = best_of(trials)
        write_json(paths.TRIALS, [trial.model_dump(mode="json") for trial in trials])
        write_json(paths.BEST, best.model_dump(mode="json", include={"settings", "trial", "score"}))
    print(f"tune: trial {best.trial} is best, macro-F1 {best.score:.4f} with {best.settings}")


if __name__ == "__main__":
    stage.run("tune", main)
