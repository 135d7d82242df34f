from accelerate import PartialState
from transformers import AutoModelForCausalLM

state = PartialState()
model = AutoModelForCausalLM.from_pretrained("gpt2", device_map={"": state.local_process_index})
print(model)
