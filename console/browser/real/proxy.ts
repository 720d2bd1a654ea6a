// A door between the server and its store that can be shut and opened again.
import { connect, createServer, type Socket } from 'node:net';

export class Door {
  private sockets = new Set<Socket>();
  private isOpen = true;
  port = 0;
  private readonly server = createServer((from) => {
    if (!this.isOpen) {
      from.destroy();
      return;
    }
    const to = connect(this.toPort, this.toHost);
    for (const socket of [from, to]) {
      this.sockets.add(socket);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        this.sockets.delete(socket);
        from.destroy();
        to.destroy();
      });
    }
    from.pipe(to).pipe(from);
  });
  private constructor(
    private readonly toHost: string,
    private readonly toPort: number,
  ) {}

  static async to(host: string, port: number): Promise<Door> {
    const door = new Door(host, port);
    await new Promise<void>((resolve) => door.server.listen(0, '127.0.0.1', resolve));
    door.port = (door.server.address() as { port: number }).port;
    return door;
  }

  shut(): void {
    this.isOpen = false;
    for (const socket of this.sockets) socket.destroy();
  }

  open(): void {
    this.isOpen = true;
  }

  close(): void {
    this.shut();
    this.server.close();
  }
}
