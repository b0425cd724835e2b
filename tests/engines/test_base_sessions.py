"""One party's run through its half, or through answering inputs: the seeds, and the mistakes that are told."""

from __future__ import annotations

import pytest
import torch

from potluck import Exchange, Fit, Method, Participant, Payload, Plan, Predict, Samples
from potluck.core.randomness import derive
from potluck.engines.base import AnsweringSession, Done, Session, own_model

CPU = torch.device("cpu")
X = torch.eye(2)
INPUTS = Samples({"x": X})


def clinic() -> Participant:
    model = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.constant_(model.weight, 0.0)
    with torch.no_grad():
        model.weight[0, 0] = 1.0
    return Participant("clinic", model, (X, [0, 1]), plan=Plan(epochs=1))


def test_one_s_own_model_answers_with_probabilities():
    answers = AnsweringSession(clinic(), own_model, INPUTS).answer_alone(CPU)
    torch.testing.assert_close(answers, torch.tensor([[1.0, 0.0], [0.0, 0.0]]).softmax(dim=1))


def test_requests_of_an_answer_get_seeds_of_their_own():
    def twice(me, inputs):
        yield Predict(inputs)
        return (yield Predict(inputs))

    me = clinic()
    me.seed, me.round = 3, 5
    session, answer, seeds = AnsweringSession(me, twice, INPUTS), None, []
    while not isinstance(step := session.advance(answer), Done):
        seeds.append(step.seed)
        answer = step.answer(CPU)
    assert seeds == [derive(3, "clinic", 5, "predict", 1), derive(3, "clinic", 5, "predict", 2)]


def test_nothing_to_answer_with_is_none():
    def nothing_yet(me, inputs):
        yield from ()

    assert AnsweringSession(clinic(), nothing_yet, INPUTS).answer_alone(CPU) is None


def exchanges(me, inputs):
    yield Exchange("help", Payload())


def trains(me, inputs):
    yield Fit()


def returns_labels(me, inputs):
    return (yield Predict(inputs)).argmax(dim=1)


def returns_one_row(me, inputs):
    return (yield Predict(inputs))[:1]


def returns_numbers(me, inputs):
    yield from ()
    return [0.5, 0.5]


@pytest.mark.parametrize(
    ("answering", "complaint"),
    [
        (exchanges, "predict at clinic asks for the exchange 'help'; inputs are answered without the server"),
        (trains, "predict at clinic asks for Fit, which changes a model; inputs are answered by readings alone"),
        (returns_labels, r"returned a tensor of shape \(2,\); expected a tensor with a row for each of 2 inputs"),
        (returns_one_row, r"returned a tensor of shape \(1, 2\); expected a tensor with a row for each of 2 inputs"),
        (returns_numbers, r"returned \[0.5, 0.5\]; expected a tensor"),
    ],
)
def test_an_answer_neither_trains_nor_asks_the_server(answering, complaint):
    me = clinic()
    before = me.weights()
    with pytest.raises(TypeError, match=complaint):
        AnsweringSession(me, answering, INPUTS).answer_alone(CPU)
    assert all(torch.equal(entry, before[name]) for name, entry in me.weights().items())


def test_a_predict_that_yields_nothing_is_told():
    class Silent(Method):
        def predict(self, me, inputs):
            return torch.ones(len(inputs), 2)

    with pytest.raises(TypeError, match="predict is no generator"):
        AnsweringSession(clinic(), Silent().predict, INPUTS)


def test_a_session_alone_stops_at_an_exchange():
    def half():
        fitted = yield Fit()
        reply = yield Exchange("steps", Payload(facts={"steps": fitted.steps}))
        return reply.facts

    session = Session(clinic(), half(), "round", keep_optimizer=False)
    assert session.advance_alone(None, CPU).payload.facts == {"steps": 1}
    assert session.advance_alone(Payload(facts={"mean": 2}), CPU) == Done({"mean": 2})


def test_a_jobs_seed_is_of_the_party_the_round_the_phase_and_the_number_of_the_request():
    def half():
        yield Predict(INPUTS)
        yield Exchange("tell", Payload())
        yield Fit()

    someone = clinic()
    someone.seed, someone.round = 7, 2
    session = Session(someone, half(), "round", keep_optimizer=True)
    first, exchange, third = (session.advance(None) for _ in range(3))
    assert first.seed == derive(7, "clinic", 2, "round", 1)
    assert isinstance(exchange, Exchange)
    assert third.seed == derive(7, "clinic", 2, "round", 3), "the exchange is counted, too"
    assert (first.keep_optimizer, third.keep_optimizer) == (False, True), "only what writes remembers"
    assert session.advance(None) == Done(None)


def test_a_half_that_is_no_generator_and_a_request_that_is_none_are_named():
    with pytest.raises(TypeError, match="round is no generator: it must yield its requests"):
        Session(clinic(), None, "round", keep_optimizer=False)
    session = Session(clinic(), iter_of("Fit"), "round", keep_optimizer=False)
    with pytest.raises(TypeError, match=r"round at clinic yielded 'Fit'; expected a request, such as Fit\(\)"):
        session.advance(None)


def iter_of(request):
    yield request
