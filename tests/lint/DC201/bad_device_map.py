"""The whole model goes to the GPU that bears the number of the process in the job."""

from accelerate import PartialState
from transformers import AutoModelForCausalLM

state = PartialState()
model = AutoModelForCausalLM.from_pretrained("gpt2", device_map={"": state.process_index})  # expect: DC201=info
print(model)
