import json
import sys

from pytorch_lightning import Trainer

trainer = Trainer(**json.loads(sys.argv[1]))
