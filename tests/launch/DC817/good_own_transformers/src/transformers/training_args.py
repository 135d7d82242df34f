class TrainingArguments:
    evaluation_strategy: str = "no"
    local_rank: int = -1
