export default function View(_: Record<string, unknown>) {
  return <div className="page" />;
}
