"""The signs that TeX commands stand for: data of maths.py."""

from __future__ import annotations


def _pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


LETTERS = _pairs(
    r"""
    alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ
    lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ
    phi φ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ
    Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ wp ℘ emptyset ∅
    varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬ angle ∠ triangle △ degree ° prime ′ dagger †
    top ⊤ bot ⊥ ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ dotsc … dotsb ⋯ sum ∑ prod ∏ int ∫ iint ∬ iiint ∭
    oint ∮ imath ı jmath ȷ lbrace { rbrace } langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ vert |
    lvert | rvert | Vert ‖ lVert ‖ rVert ‖ | ‖ { { } } % % $ $ # # & & _ _ square □ blacksquare ■
    checkmark ✓ star ⋆ colon :
    """
)
OPERATORS = _pairs(
    r"""
    pm ± mp ∓ times × div ÷ cdot · ast ∗ circ ∘ bullet • oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ cap ∩ cup ∪
    uplus ⊎ setminus ∖ wedge ∧ land ∧ vee ∨ lor ∨ le ≤ leq ≤ leqslant ≤ ge ≥ geq ≥ geqslant ≥ ne ≠ neq ≠
    equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ prec ≺ succ ≻ subset ⊂ supset ⊃ subseteq ⊆
    supseteq ⊇ subsetneq ⊊ in ∈ ni ∋ notin ∉ perp ⊥ parallel ∥ mid ∣ models ⊨ vdash ⊢ to → rightarrow →
    leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸
    iff ⟺ mapsto ↦ longrightarrow ⟶ longleftarrow ⟵ uparrow ↑ downarrow ↓ hookrightarrow ↪
    rightharpoonup ⇀ therefore ∴ because ∵ coloneqq ≔ doteq ≐ asymp ≍ bmod mod lt < gt >
    """
)
FUNCTIONS = frozenset(
    """
    sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min sup inf det dim
    ker gcd deg arg hom Pr limsup liminf argmax argmin
    """.split()
)
SPACES = {" ": " ", ",": " ", ";": " ", ":": " ", "!": "", "quad": "  ", "qquad": "    ", "enspace": " "}
ACCENTS = {
    "hat": "\u0302",
    "widehat": "\u0302",
    "bar": "\u0304",
    "tilde": "\u0303",
    "widetilde": "\u0303",
    "vec": "\u20d7",
    "dot": "\u0307",
    "ddot": "\u0308",
    "overline": "\u0305",
    "underline": "\u0332",
}
SUPERSCRIPTS = _pairs(
    """
    0 ⁰ 1 ¹ 2 ² 3 ³ 4 ⁴ 5 ⁵ 6 ⁶ 7 ⁷ 8 ⁸ 9 ⁹ + ⁺ - ⁻ = ⁼ ( ⁽ ) ⁾ a ᵃ b ᵇ c ᶜ d ᵈ e ᵉ f ᶠ g ᵍ h ʰ i ⁱ j ʲ
    k ᵏ l ˡ m ᵐ n ⁿ o ᵒ p ᵖ r ʳ s ˢ t ᵗ u ᵘ v ᵛ w ʷ x ˣ y ʸ z ᶻ A ᴬ B ᴮ D ᴰ E ᴱ G ᴳ H ᴴ I ᴵ J ᴶ K ᴷ L ᴸ
    M ᴹ N ᴺ O ᴼ P ᴾ R ᴿ T ᵀ U ᵁ V ⱽ W ᵂ β ᵝ γ ᵞ δ ᵟ θ ᶿ φ ᵠ χ ᵡ ∗ * * *
    """
)
SUBSCRIPTS = _pairs(
    """
    0 ₀ 1 ₁ 2 ₂ 3 ₃ 4 ₄ 5 ₅ 6 ₆ 7 ₇ 8 ₈ 9 ₉ + ₊ - ₋ = ₌ ( ₍ ) ₎ a ₐ e ₑ h ₕ i ᵢ j ⱼ k ₖ l ₗ m ₘ n ₙ o ₒ
    p ₚ r ᵣ s ₛ t ₜ u ᵤ v ᵥ x ₓ β ᵦ γ ᵧ ρ ᵨ φ ᵩ χ ᵪ
    """
)
BLACKBOARD = _pairs(
    """
    A 𝔸 B 𝔹 C ℂ D 𝔻 E 𝔼 F 𝔽 G 𝔾 H ℍ I 𝕀 J 𝕁 K 𝕂 L 𝕃 M 𝕄 N ℕ O 𝕆 P ℙ Q ℚ R ℝ S 𝕊 T 𝕋 U 𝕌 V 𝕍 W 𝕎 X 𝕏 Y 𝕐
    Z ℤ 1 𝟙
    """
)
SCRIPT = _pairs("B ℬ E ℰ F ℱ H ℋ I ℐ L ℒ M ℳ R ℛ e ℯ g ℊ o ℴ")
