"use strict";
// Without this everything can be read; with it, values show at once where one points, and targets can be put aside.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.says = title.textContent;
    title.remove();
  }
  for (const cell of document.querySelectorAll(".heat td[title]")) {
    cell.dataset.says = cell.title;
    cell.removeAttribute("title");
  }
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest("[data-says]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.says;
    const box = mark.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${box.top > tip.offsetHeight + 12 ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
  });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  for (const chip of document.querySelectorAll(".chip")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.title = chip.title;
    button.setAttribute("aria-pressed", "true");
    button.append(...chip.childNodes);
    button.addEventListener("click", () => {
      const off = document.body.classList.toggle(`off-${chip.dataset.target}`);
      button.setAttribute("aria-pressed", String(!off));
    });
    chip.replaceWith(button);
  }
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
})();
