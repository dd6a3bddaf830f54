// What can be told of a view without eyes: run inside of the page.

/** Problems for those who do not see the page, or use no mouse. */
export function hardToReach() {
  const found = [];
  const seen = (element) => element.checkVisibility({ checkOpacity: false, checkVisibilityCSS: true }) && element.getClientRects().length > 0;
  const said = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}">`;
  const nameOf = (element) => {
    const labelled = (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(" ");
    return [element.getAttribute("aria-label"), labelled, labels, element.textContent, element.getAttribute("title")].map((text) => (text ?? "").trim()).find(Boolean) ?? "";
  };
  const headings = [...document.querySelectorAll("h1")].filter(seen);
  if (headings.length !== 1) found.push(`${headings.length} first headings`);
  if ([...document.querySelectorAll("main")].filter(seen).length !== 1) found.push("not one main part");
  for (const element of document.querySelectorAll("a[href], button, input, select, textarea, summary, [role=slider], [role=tab], [tabindex='0']")) {
    if (seen(element) && nameOf(element) === "") found.push(`no name: ${said(element)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push(`the id ${id} twice`);
  for (const element of document.querySelectorAll("[aria-controls], [aria-labelledby]")) {
    for (const id of `${element.getAttribute("aria-controls") ?? ""} ${element.getAttribute("aria-labelledby") ?? ""}`.split(" ").filter(Boolean)) {
      if (document.getElementById(id) === null) found.push(`${said(element)} speaks of ${id}, which is not there`);
    }
  }
  return found;
}

/** Texts whose colour is too near to what is behind them: WCAG AA wants 4.5, of large ones 3. */
export function hardToRead() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, [red, green, blue, alpha / 255]);
    }
    return known.get(text);
  };
  const over = ([r, g, b, a], [r2, g2, b2]) => [r * a + r2 * (1 - a), g * a + g2 * (1 - a), b * a + b2 * (1 - a), 1];
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = colour(getComputedStyle(at).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent.trim();
    if (text === "" || !element || element.closest("[aria-hidden=true] svg, svg, .unseen, :disabled, option") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [own, ground] = [colour(style.color), behind(element)];
    const [high, low] = [light(over(own, ground)), light(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.add(`${ratio.toFixed(2)} "${text.slice(0, 24)}" in .${element.getAttribute("class") ?? element.tagName}`);
  }
  return [...found];
}
