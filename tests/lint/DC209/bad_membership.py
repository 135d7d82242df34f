import logging
import os

logger = logging.getLogger(__name__)
LOCAL_RANK = os.getenv("LOCAL_RANK", "-1")


def setup_logging():
    level = logging.INFO if LOCAL_RANK in (-1, 0) else logging.WARNING  # expect: DC209
    logger.setLevel(level)
    if os.environ["RANK"] not in [0]:  # expect: DC209
        logger.addHandler(logging.NullHandler())
