"""Hugging Face transformers: several families of models train, generate, and are saved and loaded."""

import json

import pytest
import torch
from gpu import NO_GPU
from interpreter import execute
from missing_libraries import library

tr = library("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
FAMILIES = {
    "gpt2": lambda: tr.GPT2LMHeadModel(
        tr.GPT2Config(n_positions=32, n_embd=32, n_layer=2, n_head=2,
                      resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **SMALL)
    ),
    "llama": lambda: tr.LlamaForCausalLM(
        tr.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, max_position_embeddings=64, **SMALL)
    ),
    "opt": lambda: tr.OPTForCausalLM(
        tr.OPTConfig(hidden_size=32, word_embed_proj_dim=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=2,
                     max_position_embeddings=64, dropout=0.0, **SMALL)
    ),
    "bert": lambda: tr.BertForSequenceClassification(
        tr.BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                      max_position_embeddings=32, hidden_dropout_prob=0.0,
                      attention_probs_dropout_prob=0.0, **SMALL)
    ),
    "t5": lambda: tr.T5ForConditionalGeneration(
        tr.T5Config(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, dropout_rate=0.0,
                    decoder_start_token_id=0, **SMALL)
    ),
    "vit": lambda: tr.ViTForImageClassification(
        tr.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                     image_size=16, patch_size=4, num_labels=3)
    ),
}  # fmt: skip
GENERATIVE = ["gpt2", "llama", "opt", "t5"]


def make(family: str, device: str):
    torch.manual_seed(0)
    return FAMILIES[family]().to(device)


def batch(family: str, device: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 64, (2, 12), generator=generator)
    if family == "vit":
        made = {
            "pixel_values": torch.randn(2, 3, 16, 16, generator=generator),
            "labels": torch.tensor([0, 2]),
        }
    elif family == "bert":
        mask = torch.ones_like(tokens)
        mask[1, 8:] = 0
        made = {"input_ids": tokens, "attention_mask": mask, "labels": torch.tensor([0, 1])}
    else:
        made = {"input_ids": tokens, "labels": tokens}
    return {name: tensor.to(device) for name, tensor in made.items()}


def train(family: str, device: str, steps: int = 4, compiled: bool = False, **autocast) -> list[float]:
    model = make(family, device)
    if compiled:
        model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, enabled=bool(autocast), **autocast):
            loss = model(**batch(family, device)).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("family", FAMILIES)
def test_training_losses_match_the_cpu(family):
    ours = train(family, "openreg")
    assert ours == pytest.approx(train(family, "cpu"), rel=1e-4)
    assert ours[-1] < ours[0]
    assert train(family, "openreg", dtype=torch.bfloat16) == pytest.approx(ours, rel=0.05)


@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_training_losses_match_the_cpu(family):
    torch._dynamo.reset()
    ours = train(family, "openreg", compiled=True)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert ours == pytest.approx(train(family, "cpu"), rel=1e-4)
    assert ours[-1] < ours[0]


@pytest.mark.parametrize("family", GENERATIVE)
@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"cache_implementation": "static"}], ids=str)
def test_generated_tokens_match_the_cpu(family, how):
    if family == "t5" and "cache_implementation" in how:
        pytest.skip("encoder-decoder model with another kind of cache")
    prompt = batch(family, "cpu")["input_ids"][:, :5]
    made = [
        make(family, device)
        .eval()
        .generate(prompt.to(device), max_new_tokens=8, do_sample=False, **how)
        .cpu()
        for device in ("openreg", "cpu")
    ]
    assert torch.equal(*made)


@pytest.mark.parametrize("family", GENERATIVE)
def test_sampling_is_reproducible_from_a_seed(family):
    model, prompt = make(family, "openreg").eval(), batch(family, "openreg")["input_ids"][:, :5]

    def sample(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return model.generate(prompt, max_new_tokens=12, do_sample=True, top_k=20, top_p=0.9, temperature=1.5)

    assert torch.equal(sample(1), sample(1)) and sample(1).tolist() != sample(2).tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_checkpointing(family):
    gradients = []
    for checkpointed in (False, True):
        model = make(family, "openreg").train()
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        model(**batch(family, "openreg")).loss.backward()
        gradients.append([p.grad.cpu() for p in model.parameters() if p.grad is not None])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_models_are_loaded_onto_the_device(tmp_path):
    library("accelerate")
    model = make("gpt2", "openreg")
    assert model.lm_head.weight is model.transformer.wte.weight, "tied weights stay tied"
    model.save_pretrained(tmp_path)
    for where in ("openreg", "openreg:1", torch.device("openreg", 1), {"": "openreg:1"}):
        loaded = tr.AutoModelForCausalLM.from_pretrained(tmp_path, device_map=where)
        assert loaded.device.type == "openreg"
        assert loaded.lm_head.weight is loaded.transformer.wte.weight
        assert all(
            torch.equal(a.cpu(), b.cpu())
            for a, b in zip(loaded.parameters(), model.parameters(), strict=True)
        )
    assert loaded.device.index == 1


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[PAD]": 0, "[BOS]": 1, "[EOS]": 2, **{f"w{i}": i for i in range(3, 64)}}
    made = Tokenizer(models.WordLevel(words, unk_token="[PAD]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tr.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", eos_token="[EOS]")


def test_pipeline():
    texts = ["w5 w6 w7", "w9 w10 w11 w12 w13"]
    answers = []
    for device in ("openreg", "cpu"):
        classify = tr.pipeline(
            "text-classification", model=make("bert", device), tokenizer=tokenizer(), device=device
        )
        assert classify.device.type == device
        answers.append([answer["score"] for answer in classify(texts, batch_size=2)])
    assert answers[0] == pytest.approx(answers[1], rel=1e-4)


# accelerate selects the device of a Trainer. It reads the environment variable once, so this is a separate process.
TRAINER = """
import json
import sys

import torch
import transformers as tr

torch.set_num_threads(1)
torch.manual_seed(0)
model = tr.BertForSequenceClassification(tr.BertConfig(
    vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
    max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
seen = set()
model.classifier.register_forward_hook(lambda m, i, out: seen.add((str(out.device), str(out.dtype))))


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        tokens = torch.randint(3, 64, (12,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": i % 2}


arguments = tr.TrainingArguments(
    sys.argv[1], max_steps=4, per_device_train_batch_size=4, report_to=[], logging_steps=1, disable_tqdm=True,
    save_strategy="no", eval_strategy="steps", eval_steps=4)
trainer = tr.Trainer(model, arguments, train_dataset=Data(), eval_dataset=Data())
trainer.train()
history = trainer.state.log_history
print(json.dumps({
    "losses": [line["loss"] for line in history if "loss" in line],
    "evaluated": [line["eval_loss"] for line in history if "eval_loss" in line],
    "seen": sorted(seen),
}))
"""


def run_trainer(folder, **variables: str) -> dict:
    # A Trainer prefers a GPU to the environment variable.
    out = execute(TRAINER, str(folder), OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", **NO_GPU, **variables)
    return json.loads(out.splitlines()[-1])


def test_trainer(tmp_path):
    library("accelerate")
    ours = run_trainer(tmp_path, ACCELERATE_TORCH_DEVICE="openreg:0")
    theirs = run_trainer(tmp_path, ACCELERATE_USE_CPU="true")
    assert ours["seen"] == [["openreg:0", "torch.float32"]] and len(ours["losses"]) == 4
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-3)
    assert ours["evaluated"] == pytest.approx(theirs["evaluated"], rel=1e-3)


def test_trainer_in_mixed_precision(tmp_path):
    library("accelerate")
    made = run_trainer(tmp_path, ACCELERATE_TORCH_DEVICE="openreg:0", ACCELERATE_MIXED_PRECISION="bf16")
    assert made["seen"] == [["openreg:0", "torch.bfloat16"]] and len(made["losses"]) == 4
