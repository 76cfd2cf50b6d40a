"""Tiny models, problems and an in-process sandbox for tests of training."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

from corecode.problems import Problem, Reference, Test
from sandbox import Judgement, Program, TestResult, Verdict

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'assistant' %}<eos>{% endif %}{% endfor %}"


def tiny_tokenizer(texts: Sequence[str], vocabulary: int = 300) -> Any:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=["<pad>", "<eos>"],
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<pad>",
        eos_token="<eos>",
        padding_side="left",
        model_max_length=512,
        chat_template=TEMPLATE,
    )


def tiny_model(tokenizer: Any, seed: int = 0, width: int = 32, layers: int = 2, std: float = 0.06) -> Any:
    set_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        initializer_range=std,
    )
    return LlamaForCausalLM(config)


def problem(number: int, answer: str = "1", statement: str | None = None) -> Problem:
    """A problem that prints ``answer``."""
    thought = f"Input-Output: nothing -> {answer}\nSteps:\n1. print {answer}\nConditions: none\nIteration: none"
    return Problem(
        id=f"p{number}",
        statement=statement or f"Print {answer}. Case {number}.",
        tests=[Test(input="", output=answer), Test(input="x", output=answer)],
        references=[Reference(program=f"print({answer})", thought=thought)],
    )


class LocalSandbox:
    """Runs trusted test programs in this process; the sources in ``broken`` cannot be judged."""

    backend = "test"

    def __init__(self, broken: Sequence[str] = ()) -> None:
        self.broken = set(broken)
        self.capabilities: dict[str, object] = {}
        self.sources: list[str | None] = []

    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        return [self._judge(program) for program in programs]

    def _judge(self, program: Program) -> Judgement:
        self.sources.append(program.source)
        total = len(program.tests)
        if program.source in self.broken:
            results = tuple(TestResult(Verdict.SANDBOX_ERROR) for _ in program.tests)
            return Judgement(Verdict.SANDBOX_ERROR, results, 0, total, 0.0, 0.0, 0.0, None, "broken")
        if program.source is None:
            results = tuple(TestResult(Verdict.NO_CODE) for _ in program.tests)
            return Judgement(Verdict.NO_CODE, results, 0, total, 0.0, 0.0, 0.0, 0, "")
        results = tuple(self._run(program.source, test.expected) for test in program.tests)
        passed = sum(result.verdict is Verdict.ACCEPTED for result in results)
        verdict = next((r.verdict for r in results if r.verdict is not Verdict.ACCEPTED), Verdict.ACCEPTED)
        return Judgement(verdict, results, passed, total, 0.0, 0.0, 0.0, len(program.source), "")

    @staticmethod
    def _run(source: str, expected: object) -> TestResult:
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(source, "program", "exec"), {"input": lambda: ""})
        except BaseException as error:
            return TestResult(Verdict.RUNTIME_ERROR, detail=type(error).__name__)
        right = output.getvalue().split() == str(expected).split()
        return TestResult(Verdict.ACCEPTED if right else Verdict.WRONG_ANSWER)

    def close(self) -> None: ...

    def __enter__(self) -> LocalSandbox:
        return self

    def __exit__(self, *_exc: object) -> None: ...
