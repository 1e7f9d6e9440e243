"""peft: adapters are trained, saved, loaded and merged on the device."""

import pytest
import torch
from missing_libraries import library

peft = library("peft")
tr = library("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")


def base(device: str):
    torch.manual_seed(0)
    config = tr.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return tr.LlamaForCausalLM(config).to(device)


ADAPTERS = {
    "lora": lambda: peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    "dora": lambda: peft.LoraConfig(r=4, use_dora=True, target_modules=["q_proj"], task_type="CAUSAL_LM"),
    "ia3": lambda: peft.IA3Config(
        target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"
    ),
    "prompt": lambda: peft.PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
}


def train(adapter: str, device: str):
    model = base(device)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    model = peft.get_peft_model(model.cpu(), ADAPTERS[adapter]()).to(device)
    torch.set_rng_state(state)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    tokens = torch.randint(0, 64, (2, 10), generator=torch.Generator().manual_seed(0)).to(device)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses, tokens


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_training_losses_match_the_cpu(adapter):
    model, ours, _ = train(adapter, "openreg")
    assert {p.device.type for p in model.parameters()} == {"openreg"}
    assert ours == pytest.approx(train(adapter, "cpu")[1], rel=1e-4) and ours[-1] < ours[0]


def test_adapter_created_on_the_device_is_saved_loaded_and_merged(tmp_path):
    model = peft.get_peft_model(base("openreg"), ADAPTERS["lora"]())
    assert {p.device.type for p in model.parameters()} == {"openreg"}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.1)
    tokens = torch.arange(10, device="openreg")[None]
    expected = model(tokens).logits
    model.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(base("openreg"), tmp_path)
    assert torch.equal(loaded(tokens).logits, expected)
    merged = loaded.merge_and_unload()
    assert merged.device.type == "openreg"
    torch.testing.assert_close(merged(tokens).logits, expected, rtol=1e-4, atol=1e-5)
