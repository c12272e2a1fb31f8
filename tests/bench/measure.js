// What is wrong with the page as it is laid out: a list of sentences. Evaluated in the page by test_report.py.
(() => {
  const wrong = [];
  const say = (text) => { if (wrong.length < 40) wrong.push(text); };
  for (const folded of document.querySelectorAll("details")) folded.open = true;

  const wide = document.documentElement;
  if (wide.scrollWidth > innerWidth) say(`the page is ${wide.scrollWidth} wide in a window of ${innerWidth}`);

  // Drawings: named, not empty, their texts apart from each other and inside the page.
  for (const drawing of document.querySelectorAll("svg")) {
    const name = drawing.getAttribute("aria-label") || "";
    const short = name.slice(0, 60);
    if (drawing.getAttribute("role") !== "img" || !name.trim()) say(`a drawing without a name: ${drawing.outerHTML.slice(0, 80)}`);
    if (!drawing.querySelector("path, circle, rect, line")) say(`an empty drawing: ${short}`);
    const panel = (drawing.closest(".panel") || drawing).getBoundingClientRect();
    const texts = [...drawing.querySelectorAll("text")].map((text) => ({ says: text.textContent, box: text.getBoundingClientRect() }));
    for (const { says, box } of texts) {
      if (!says.trim()) say(`an empty text in ${short}`);
      if (box.left < Math.max(0, panel.left - 2) || box.right > Math.min(innerWidth, panel.right + 2) + 0.5) {
        say(`"${says}" (${box.left.toFixed()}..${box.right.toFixed()}) leaves its panel (${panel.left.toFixed()}..${panel.right.toFixed()}): ${short}`);
      }
    }
    for (let one = 0; one < texts.length; one++) {
      for (let two = one + 1; two < texts.length; two++) {
        const [a, b] = [texts[one].box, texts[two].box];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Boxes are as high as a line; letters leave a fifth of it free above and below.
        if (across > 0.5 && down > Math.min(a.height, b.height) * 0.35) {
          say(`"${texts[one].says}" and "${texts[two].says}" overlap: ${short}`);
        }
      }
    }
  }
  for (const row of document.querySelectorAll(".ticks")) {
    const boxes = [...row.children].map((tick) => tick.getBoundingClientRect());
    boxes.slice(1).forEach((box, at) => { if (box.left < boxes[at].right) say(`ticks of the ratios overlap: ${row.textContent}`); });
  }

  // Colours: every text is readable on what is behind it.
  const parse = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [red, green, blue], alpha };
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = parse(getComputedStyle(at).backgroundColor);
      layers.push(layer);
      if (layer.alpha === 1) break;
    }
    return layers.reverse().reduce((under, { rgb, alpha }) => rgb.map((part, at) => part * alpha + under[at] * (1 - alpha)), [255, 255, 255]);
  };
  const light = (rgb) => {
    const parts = rgb.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const seen = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!own || !element.getClientRects().length || ["SCRIPT", "STYLE", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = parse(element instanceof SVGElement ? style.fill : style.color).rgb;
    const paper = behind(element);
    const [low, high] = [light(ink), light(paper)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    const key = `${ink} on ${paper.map(Math.round)}`;
    if (contrast < 4.5 && !seen.has(key)) {
      seen.add(key);
      say(`"${element.textContent.slice(0, 30)}" has a contrast of ${contrast.toFixed(2)} (${key})`);
    }
  }
  return wrong;
})()
