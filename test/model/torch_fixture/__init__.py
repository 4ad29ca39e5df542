"""The parts of ../make_torch_fixture.py."""
