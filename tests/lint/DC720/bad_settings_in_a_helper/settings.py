import json
import os
import pickle

import numpy as np


def remember(options):
    """Keep the options next to the results."""
    target = os.path.join(options.folder, "options.json")
    with open(target, "w") as file:  # expect: DC720
        json.dump(vars(options), file)
    _keep_weights(options)


def _keep_weights(options):
    np.save(os.path.join(options.folder, "weights.npy"), np.ones(options.classes))  # expect: DC720
    pickle.dump(options, open(options.folder + "/options.pkl", "wb"))  # expect: DC720
