// SPDX-License-Identifier: Apache-2.0

// Notes what pages write into canvases, for problems.js. It runs before the scripts of a page.
(() => {
  const texts = (window.canvasTexts = new Map()); // by canvas: what is written there, in its points
  const context = CanvasRenderingContext2D.prototype;
  const { fillText, clearRect } = context;
  context.fillText = function (text, x, y, ...rest) {
    const size = this.measureText(text);
    const box = [-size.actualBoundingBoxLeft, -size.actualBoundingBoxAscent, size.actualBoundingBoxRight, size.actualBoundingBoxDescent];
    const at = this.getTransform();
    const corners = [[box[0], box[1]], [box[2], box[1]], [box[0], box[3]], [box[2], box[3]]].map(([dx, dy]) => at.transformPoint({ x: x + dx, y: y + dy }));
    const xs = corners.map((p) => p.x);
    const ys = corners.map((p) => p.y);
    const list = texts.get(this.canvas) ?? [];
    list.push({ text, color: this.fillStyle, left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) });
    texts.set(this.canvas, list);
    return fillText.call(this, text, x, y, ...rest);
  };
  context.clearRect = function (x, y, width, height) {
    if (x <= 0 && y <= 0 && width >= this.canvas.width && height >= this.canvas.height) {
      texts.delete(this.canvas);
    }
    return clearRect.call(this, x, y, width, height);
  };
  for (const name of ["width", "height"]) {
    const { get, set } = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, name);
    Object.defineProperty(HTMLCanvasElement.prototype, name, {
      get,
      set(value) {
        texts.delete(this); // a new size clears it
        set.call(this, value);
      },
    });
  }
})();
