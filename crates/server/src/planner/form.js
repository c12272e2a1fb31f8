"use strict";
// Sends the fields and shows what comes back. It computes nothing; without it the form is sent as any form is.
(() => {
  const form = document.getElementById("plan");
  const result = document.getElementById("result");
  const state = document.getElementById("state");
  if (!form || !result || !state || !window.fetch) return;
  let latest = 0;

  const wanted = () => {
    const body = { set: [] };
    for (const [key, value] of new FormData(form)) {
      const text = value.trim();
      if (!text || (key === "scenario" && text === "own")) continue;
      if (key === "scenario" || key === "toml") body[key] = text;
      else body.set.push(`${key}=${text}`);
    }
    return body;
  };

  const address = () => {
    const query = new URLSearchParams();
    for (const [key, value] of new FormData(form)) {
      if (value.trim()) query.set(key, value);
    }
    history.replaceState(null, "", `/plan?${query}`);
  };

  const mark = (key) => {
    const plain = (key || "").replace(/\[\d+\]/g, "");
    for (const field of form.elements) {
      if (!field.name) continue;
      if (plain && field.name === plain) {
        field.setAttribute("aria-invalid", "true");
        field.focus();
      } else field.removeAttribute("aria-invalid");
    }
  };

  const refuse = (text) => {
    const notice = document.createElement("p");
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    const head = document.createElement("b");
    head.textContent = "Not answered.";
    notice.append(head, ` ${text}`);
    result.replaceChildren(notice);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    latest += 1;
    const mine = latest;
    state.textContent = "planning";
    result.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch("/plan/solve", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(wanted()),
      });
      const said = await answer.json();
      if (mine !== latest) return;
      mark(said.key);
      if (answer.ok) {
        // Markup that the server made and escaped.
        result.innerHTML = said.html;
        result.focus({ preventScroll: true });
        address();
      } else refuse(said.error);
    } catch (error) {
      if (mine === latest) refuse(`The server does not answer: ${error.message}`);
    } finally {
      if (mine === latest) {
        state.textContent = "";
        result.removeAttribute("aria-busy");
      }
    }
  });
})();
