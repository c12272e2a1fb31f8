"use strict";
// Looks up in the table what the sliders name; computes nothing. Without it the table is there.
(() => {
  const rows = [...document.querySelectorAll("#grid-table tbody tr")];
  const heads = [...document.querySelectorAll("#grid-table thead th[data-factor]")];
  const peak = document.getElementById("grid-peak");
  const retention = document.getElementById("grid-retention");
  const answer = document.getElementById("grid-answer");
  if (!peak || !retention || !answer) return;
  const show = () => {
    const row = rows[peak.value];
    const factor = row.querySelector("th").dataset.factor;
    peak.nextElementSibling.textContent = `x ${factor}`;
    peak.setAttribute("aria-valuetext", `${factor} times the peak`);
    const kept = heads[retention.value].dataset.factor;
    retention.nextElementSibling.textContent = `x ${kept}`;
    retention.setAttribute("aria-valuetext", `${kept} times the retention`);
    answer.textContent = row.querySelectorAll("td")[retention.value].dataset.answer;
  };
  peak.addEventListener("input", show);
  retention.addEventListener("input", show);
  document.getElementById("sliders").hidden = false;
  show();
})();
