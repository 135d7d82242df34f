def test_arithmetic():
    assert 1 + 1 == 2
