// Style sheets are imported for their effect: esbuild puts them into page.css.
declare module "*.css";
