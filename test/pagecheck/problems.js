// SPDX-License-Identifier: Apache-2.0

// An expression whose value is a list of what is wrong with the texts of the page.
(() => {
  const leastHeight = 8; // px of a line of text: smaller ones cannot be read
  const leastContrast = 3; // as WCAG counts it
  const most = 30; // problems in the list
  const svg = "http://www.w3.org/2000/svg";

  const boxOf = (r) => ({ left: r.left, top: r.top, right: r.right, bottom: r.bottom });
  const cut = (a, b) => ({ left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) });
  const isEmpty = (b) => b.right - b.left < 1 || b.bottom - b.top < 1;

  // visible is the part of a box that the boxes around its element let through. hidden is whether one cuts it that
  // neither scrolls nor says so with dots.
  function visible(element, box) {
    let hidden = false;
    for (let e = element; e && e !== document.documentElement; e = e.parentElement) {
      const style = getComputedStyle(e);
      const isPicture = e.tagName === "svg";
      if (style.overflowX === "visible" || (!isPicture && (style.display === "inline" || e.namespaceURI === svg))) {
        continue;
      }
      const inside = cut(box, boxOf(e.getBoundingClientRect()));
      const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
      if (!scrolls && style.textOverflow !== "ellipsis" && (box.right - inside.right > 2 || inside.left - box.left > 2 || box.bottom - inside.bottom > 3 || inside.top - box.top > 3)) {
        hidden = true;
      }
      box = inside;
    }
    return { box, hidden };
  }

  const parse = (text) => {
    const c = /^rgba?\(([^)]*)\)/.exec(text)?.[1].split(/[,/\s]+/).filter((x) => x !== "").map(Number);
    return c ? { rgb: c.slice(0, 3), alpha: c[3] ?? 1 } : null;
  };
  // hex colours are those of a canvas
  const parseAny = (text) => parse(text) ?? (/^#[0-9a-f]{6}$/i.test(text) ? { rgb: [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)), alpha: 1 } : null);
  const over = (front, back) => front.rgb.map((c, i) => c * front.alpha + back[i] * (1 - front.alpha));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };

  // behind is the colour behind a point of an element: that of the nearest things below it, down to an opaque one.
  function behind(element, x, y) {
    const dark = /dark/.test(getComputedStyle(document.documentElement).colorScheme) && matchMedia("(prefers-color-scheme: dark)").matches;
    const layers = [];
    for (const e of document.elementsFromPoint(x, y)) {
      const style = getComputedStyle(e);
      const shape = e.namespaceURI === svg && e.tagName !== "svg";
      if (e === element && shape || shape && /^(text|tspan|g)$/.test(e.tagName) || e.tagName === "CANVAS") {
        continue;
      }
      const c = parse(shape ? style.fill : style.backgroundColor);
      if (c && shape) {
        c.alpha *= Number(style.fillOpacity) * Number(style.opacity);
      }
      if (c && c.alpha > 0) {
        layers.push(c);
      }
      if (c && c.alpha >= 1) {
        break;
      }
    }
    return layers.reverse().reduce((back, front) => over(front, back), dark ? [18, 18, 18] : [255, 255, 255]);
  }

  function colorOf(element) {
    const style = getComputedStyle(element);
    const isShape = element.namespaceURI === svg;
    const c = parse(isShape ? style.fill : style.color);
    // A text with a rim is read against its rim.
    const rim = isShape && style.stroke !== "none" && parseFloat(style.strokeWidth) >= 2 ? parse(style.stroke) : null;
    return { color: c, rim };
  }

  const found = new Set();
  const texts = []; // {text, left, top, right, bottom}

  function add(text, full, element, color, rim) {
    text = text.trim().replace(/\s+/g, " ").slice(0, 40);
    const { box, hidden } = visible(element, full);
    if (isEmpty(box)) {
      if (hidden) {
        found.add(`"${text}" is cut off`);
      }
      return;
    }
    if (hidden) {
      found.add(`"${text}" is cut off`);
    }
    if (box.right > innerWidth + 1 || box.left < -1 || box.top < -1) {
      found.add(`"${text}" is outside of the page: from ${box.left.toFixed(0)} to ${box.right.toFixed(0)} of ${innerWidth}`);
    }
    if (full.bottom - full.top < leastHeight && full.right - full.left > 1) {
      found.add(`"${text}" is only ${(full.bottom - full.top).toFixed(1)} px high`);
    }
    if (color) {
      const back = rim?.rgb ?? behind(element, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
      const ratio = contrast(over(color, back), back);
      if (ratio < leastContrast) {
        found.add(`"${text}" has a contrast of ${ratio.toFixed(1)}: rgb(${color.rgb}) on rgb(${back.map(Math.round)})`);
      }
    }
    texts.push({ text, ...box });
  }

  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const skipped = element.closest("script, style, title, desc, option, select, datalist, noscript, defs");
    if (skipped || node.data.trim() === "" || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) {
      continue;
    }
    const { color, rim } = colorOf(element);
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = element.namespaceURI === svg ? [element.getBoundingClientRect()] : [...range.getClientRects()];
    for (const r of rects) {
      if (r.width > 0) {
        add(node.data, boxOf(r), element, color, rim);
      }
    }
  }
  for (const [canvas, list] of window.canvasTexts ?? []) {
    if (!canvas.isConnected) {
      continue;
    }
    const place = canvas.getBoundingClientRect();
    const [sx, sy] = [place.width / canvas.width, place.height / canvas.height];
    for (const t of list) {
      const box = { left: place.left + t.left * sx, right: place.left + t.right * sx, top: place.top + t.top * sy, bottom: place.top + t.bottom * sy };
      if (box.left < place.left - 1 || box.right > place.right + 1 || box.top < place.top - 1 || box.bottom > place.bottom + 1) {
        found.add(`"${t.text}" is cut off by its chart`);
      }
      // The box is that of the letters; a line is higher.
      const middle = (box.top + box.bottom) / 2;
      const isTurned = box.bottom - box.top > 1.5 * (box.right - box.left);
      add(t.text, isTurned ? box : { ...box, top: Math.min(box.top, middle - 6), bottom: Math.max(box.bottom, middle + 6) }, canvas, parseAny(t.color));
    }
  }

  // Boxes of text have space above and below the letters: a part of it may overlap.
  const inner = texts.map((t) => ({ ...t, top: t.top + 0.18 * (t.bottom - t.top), bottom: t.bottom - 0.18 * (t.bottom - t.top) }));
  inner.sort((a, b) => a.top - b.top);
  for (let i = 0; i < inner.length; i++) {
    for (let k = i + 1; k < inner.length && inner[k].top < inner[i].bottom; k++) {
      const both = cut(inner[i], inner[k]);
      if (both.right - both.left > 0.5 && both.bottom - both.top > 0.5) {
        found.add(`"${inner[i].text}" and "${inner[k].text}" overlap at ${both.left.toFixed(0)}, ${both.top.toFixed(0)}`);
      }
    }
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) {
    found.add(`the page is ${document.documentElement.scrollWidth} wide, the screen ${innerWidth}`);
  }
  return [...found].slice(0, most);
})();
