"""Halving finds what it looks for, in few tries."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tf_blade.debug.search import all_failing, first_failing, minimal_failing


@given(st.integers(1, 5000), st.data())
def test_the_first_failing_number_takes_as_many_tries_as_its_count_has_bits(count, data):
    first = data.draw(st.integers(1, count))
    tried = []

    def fails(n: int) -> bool:
        tried.append(n)
        return n >= first

    assert first_failing(count, fails) == first
    assert len(tried) <= math.ceil(math.log2(count)) if count > 1 else not tried
    assert all(0 < n < count for n in tried)  # what is known isn't asked


@given(st.integers(1, 200), st.data())
def test_items_that_fail_only_together_are_found_together(count, data):
    guilty = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=4))
    tries = 0

    def fails(items) -> bool:
        nonlocal tries
        tries += 1
        return guilty <= set(items)

    assert minimal_failing(range(count), fails) == sorted(guilty)
    assert tries <= len(guilty) * (math.ceil(math.log2(count + 1)) + 1)


@given(st.integers(1, 60), st.data())
def test_several_culprits_are_all_found(count, data):
    alone = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=4))
    groups, left = all_failing(range(count), lambda items: bool(alone & set(items)), most=10)
    assert sorted(groups) == [[item] for item in sorted(alone)]
    assert sorted(left) == sorted(set(range(count)) - alone)


def test_no_more_are_looked_for_than_wanted():
    groups, left = all_failing(range(10), lambda items: bool(items), most=3)
    assert len(groups) == 3
    assert len(left) == 7


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_where_failing_comes_and_goes_the_result_is_still_a_place_where_it_begins(outcomes):
    outcomes = [False, *outcomes, True]
    n = first_failing(len(outcomes) - 1, lambda i: outcomes[i])
    assert outcomes[n] and not outcomes[n - 1]


@given(st.integers(1, 12), st.data())
def test_a_search_that_contradicts_itself_ends(count, data):
    def fails(items) -> bool:
        return data.draw(st.booleans())

    assert minimal_failing(range(count), fails)
